/*
 * The hosts beyond the machine of a test: listens on every address of this network namespace, over TCP and UDP, and
 * appends each address that was reached to a file. `outside.ts FILE`; prints `ready` when it listens, and exits at the
 * end of its standard input.
 */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { PORT } from './places.ts'

const hits = process.argv[2] ?? ''
const note = (address = '') => appendFileSync(hits, `${address.replace('::ffff:', '')}\n`)

const server = createServer((socket) => {
  note(socket.localAddress)
  socket.on('error', () => {})
  socket.end('reached\n')
}).listen(PORT, '::')
await once(server, 'listening')
const datagrams = createSocket('udp4', (message, { port, address }) => {
  note(message.toString())
  datagrams.send('reached', port, address)
})
datagrams.bind(PORT)
await once(datagrams, 'listening')
process.stdout.write('ready\n')
process.stdin.resume().once('end', () => process.exit())
