import assert from 'node:assert/strict'
import { connect } from './fixture.ts'
import type { Kind, On } from './protocol.ts'

/* Messages that are far larger than a socket accepts at once. */

const MB = 2 ** 20

export function largeTests(on: On, kind: Kind): void {
  on('rows and parameters of 10 MB, a query of 20 MB', async ({ proxy, host }) => {
    const client = await connect(proxy.port, host(kind))
    const { rows } = await client.query<{ long: string }>("select repeat('0123456789', $1) as long", [MB])
    assert.equal(rows[0]?.long, '0123456789'.repeat(MB))
    const value = 'abcdefghij'.repeat(MB)
    const text = 'select length($1::text) as n, md5($1::text) = md5(repeat($2, $3)) as same'
    for (const name of [undefined, 'large'])
      assert.deepEqual((await client.query({ ...(name && { name }), text, values: [value, 'abcdefghij', MB] })).rows, [
        { n: 10 * MB, same: true },
      ])
    assert.deepEqual((await client.query(`select length('${'q'.repeat(20 * MB)}') as n`)).rows, [{ n: 20 * MB }])
    assert.deepEqual((await client.query(`select length('${'q'.repeat(12 * MB)}') as n, $1::int as i`, [1])).rows, [
      { n: 12 * MB, i: 1 },
    ])
    await client.end()
  })
}
