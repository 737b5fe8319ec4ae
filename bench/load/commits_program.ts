/**
 * Commits one row after the other, in the table `written`, and measures each commit. A program of its own: in that of a
 * benchmark, a commit would also wait for the other work of the benchmark. It answers every message with the
 * milliseconds of the commits since the last one, and ends when its parent disconnects:
 *
 *   node commits_program.ts CONNECTION_URI CA_FILE
 */
import { connect } from '../../test/clients.ts'

const [uri = '', ca_file = ''] = process.argv.slice(2)
const client = await connect({ ready: { ca_file } }, uri)
let samples: number[] = []
process.on('message', () => {
  process.send?.(samples)
  samples = []
})
let isOver = false
process.once('disconnect', () => (isOver = true))
process.send?.(samples)
while (!isOver) {
  const begun = performance.now()
  await client.query('insert into written values (1)')
  samples.push(performance.now() - begun)
}
await client.end()
