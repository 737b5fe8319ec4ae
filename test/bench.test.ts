import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { run } from './neap.ts'

for (const name of ['proxy_session', 'proxy_pooled', 'proxy_bulk']) {
  test(`benchmark ${name} names the missing programs in one line`, async () => {
    const script = fileURLToPath(new URL(`../bench/${name}.ts`, import.meta.url))
    const { code, stdout, stderr } = await run(process.execPath, [script], { PATH: '/nowhere' })
    assert.deepEqual({ code, stdout }, { code: 1, stdout: '' })
    assert.match(
      stderr,
      /^this benchmark needs (pgbench|psql)( and pgbouncer)?; on Debian: apt-get install [a-z -]+\n$/,
    )
  })
}
