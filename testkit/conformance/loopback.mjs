// Makes the suite's origin server listen on loopback alone, on a free port, which it then prints.
import net from 'node:net'

const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, { port: Number(port), host: '127.0.0.1' }, ...rest)
}
