// Two users of the chat at once, over each way that Socket.IO has. Prints UPGRADE when the node may be replaced, and waits for a line then.
// Ends with code 1 and the reason if anything does not hold.

import assert from 'node:assert/strict'
import { createInterface } from 'node:readline'
import { io } from 'socket.io-client'

const url = process.argv[2]
const WAYS = { polling: ['polling'], websocket: ['websocket'], upgraded: ['polling', 'websocket'] }
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const limit = setTimeout(() => { console.error('not over in 90 s'); process.exit(1) }, 90_000)

const until = async (what, holds) => {
  const end = Date.now() + 20_000
  while (!holds()) {
    assert(Date.now() < end, `in 20 s: ${what}`)
    await new Promise(done => setTimeout(done, 10))
  }
}

async function connected(user, transports) {
  const socket = io(url, { transports, auth: { user }, forceNew: true, reconnection: false, extraHeaders: { Cookie: `user=${user}` } })
  const seen = { socket, user, said: [], whispered: [], ends: [] }
  socket.on('said', (from, text) => seen.said.push(`${from}: ${text}`))
  socket.on('whispered', (from, text) => seen.whispered.push(`${from}: ${text}`))
  socket.on('disconnect', reason => seen.ends.push(reason))
  await new Promise((done, fail) => { socket.on('connect', done); socket.on('connect_error', fail) })
  return seen
}

async function talk(ada, bob, round) {
  for (const { socket, user } of [ada, bob]) {
    const who = await socket.emitWithAck('who')
    assert.deepEqual([who.user, who.cookie, who.proto, who.address], [user, `user=${user}`, 'https', '127.0.0.1'])
    for (let number = 0; number < 30; number++) assert.equal(await socket.emitWithAck('echo', `${user} ${round} ${number}`), `${user} ${round} ${number}`)
    const bytes = Buffer.alloc(1_000_000, `${user}${round}`)
    assert(bytes.equals(Buffer.from(await socket.emitWithAck('echo', bytes))), 'a megabyte comes back')
  }
  ada.socket.emit('say', `to all ${round}`)
  ada.socket.emit('whisper', bob.user, `to bob ${round}`)
  bob.socket.emit('whisper', ada.user, `to ada ${round}`)
  await until('what was said arrives', () => [ada, bob].every(one => one.said.includes(`${ada.user}: to all ${round}`) && one.whispered.length > round))
  assert.equal(ada.whispered.at(-1), `${bob.user}: to ada ${round}`)
  assert.equal(bob.whispered.at(-1), `${ada.user}: to bob ${round}`)
  assert.deepEqual([ada.whispered.length, bob.whispered.length], [round + 1, round + 1], 'each gets their own whispers alone')
}

try {
  const pairs = {}
  for (const [way, transports] of Object.entries(WAYS)) {
    const [ada, bob] = [await connected(`ada-${way}`, transports), await connected(`bob-${way}`, transports)]
    await talk(ada, bob, 0)
    if (way !== 'polling') await until('both speak by websocket', () => [ada, bob].every(one => one.socket.io.engine.transport.name === 'websocket'))
    pairs[way] = [ada, bob]
  }
  console.log('UPGRADE')
  await answers.next()
  for (const [way, [ada, bob]] of Object.entries(pairs)) {
    await talk(ada, bob, 1)
    assert.deepEqual([...ada.ends, ...bob.ends], [], `${way}: nobody was disconnected`)
    ada.socket.close()
    bob.socket.close()
  }
  clearTimeout(limit)
  console.log('DONE')
  process.exit(0)
} catch (fault) {
  console.error(fault)
  process.exit(1)
}
