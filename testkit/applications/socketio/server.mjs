// A chat by Socket.IO: each user has a room, everything said reaches all, a whisper reaches its user alone.

import { createServer } from 'node:http'
import { Server } from 'socket.io'

const server = createServer((request, response) => {
  response.setHeader('Content-Type', 'text/html')
  response.setHeader('Cache-Control', 'max-age=60')
  response.end('<script src="/socket.io/socket.io.js"></script><script>io()</script>')
})
const chat = new Server(server, { maxHttpBufferSize: 4e6 })

chat.use((socket, next) => {
  const user = socket.handshake.auth.user
  return user ? next() : next(new Error('who?'))
})

chat.on('connection', socket => {
  const user = socket.handshake.auth.user
  const fields = socket.handshake.headers
  socket.join(user)
  socket.on('who', answer => answer({ user, cookie: fields.cookie, proto: fields['x-forwarded-proto'], address: fields['x-forwarded-for'], transport: socket.conn.transport.name }))
  socket.on('echo', (value, answer) => answer(value))
  socket.on('say', text => chat.emit('said', user, text))
  socket.on('whisper', (to, text) => chat.to(to).emit('whispered', user, text))
})

server.listen(Number(process.argv[2]), '127.0.0.1')
