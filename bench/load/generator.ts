/**
 * Requests one path over CONNECTIONS connections, each with one outstanding request, and prints the number of answers
 * and their latencies. HTTP/1.1 on plain sockets, to leave most of the CPU to the server:
 *
 *   node generator.ts PORT PATH KEY CONNECTIONS SECONDS
 */
import { connect } from 'node:net'

const [port = '', path = '', key = '', connections = '', seconds = ''] = process.argv.slice(2)
const request = [
  `GET ${path} HTTP/1.1`,
  'host: localhost',
  `authorization: Bearer ${key}`,
  'accept: application/json',
  '\r\n',
].join('\r\n')
const END_OF_HEAD = Buffer.from('\r\n\r\n')
const milliseconds: number[] = []
const until = performance.now() + Number(seconds) * 1000

function ask(): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: Number(port), host: '127.0.0.1', noDelay: true })
    let received = Buffer.alloc(0)
    let begun = 0
    const next = (): void => {
      begun = performance.now()
      if (begun >= until) {
        socket.destroy()
        return resolve()
      }
      socket.write(request)
    }
    socket.on('connect', next)
    socket.on('error', reject)
    socket.on('data', (part) => {
      received = received.length === 0 ? part : Buffer.concat([received, part])
      const head = received.indexOf(END_OF_HEAD)
      if (head === -1) return
      const text = received.toString('latin1', 0, head)
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1])
      if (received.length < head + 4 + length) return
      if (!text.startsWith('HTTP/1.1 200')) return reject(new Error(received.toString()))
      received = Buffer.alloc(0)
      milliseconds.push(performance.now() - begun)
      next()
    })
  })
}

await Promise.all(Array.from({ length: Number(connections) }, ask))
process.stdout.write(JSON.stringify({ perSecond: milliseconds.length / Number(seconds), milliseconds }))
