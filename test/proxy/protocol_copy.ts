import assert from 'node:assert/strict'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { from, to } from 'pg-copy-streams'
import { connect } from './fixture.ts'
import type { Kind, On } from './protocol.ts'

/* COPY by the driver that programs for Node use for it, with back-pressure. */

export function copyTests(on: On, kind: Kind): void {
  on('pg-copy-streams: in, out, and one that fails midway', async ({ proxy, host }) => {
    const client = await connect(proxy.port, host(kind))
    await client.query('truncate arrived')
    const line = `${'x'.repeat(99)}\n`
    const lines = (count: number): Readable =>
      Readable.from(Array.from({ length: count / 1000 }, () => line.repeat(1000)))
    await pipeline(lines(30_000), client.query(from('copy arrived from stdin')))
    assert.deepEqual((await client.query('select count(*)::int as n from arrived')).rows, [{ n: 30_000 }])
    let bytes = 0
    const counting = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        bytes += chunk.length
        done()
      },
    })
    await pipeline(client.query(to('copy arrived to stdout')), counting.resume())
    assert.equal(bytes, 30_000 * 100)
    const bad = Readable.from([line, 'two\tcolumns\n', ...Array.from({ length: 50 }, () => line.repeat(1000))])
    await assert.rejects(pipeline(bad, client.query(from('copy arrived from stdin'))), { code: '22P04' })
    assert.deepEqual((await client.query('select count(*)::int as n from arrived')).rows, [{ n: 30_000 }])
    async function* breaking(): AsyncGenerator<string> {
      yield line
      throw new Error('the source broke')
    }
    await assert.rejects(pipeline(breaking(), client.query(from('copy arrived from stdin'))), /the source broke/)
    await client.query('truncate arrived')
    await client.end()
  })
}
