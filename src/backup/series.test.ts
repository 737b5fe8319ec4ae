import { deepEqual, rejects } from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { peer } from '../../test/clients/peers.ts'
import { describeSeries, listSeries } from './installation_files.ts'
import { configureRepository, openRepository } from './repository.ts'
import { pushWalEnd } from './wal_end.ts'

const PROGRAM = peer('pgbackrest/pgbackrest')
const directory = mkdtempSync(join(tmpdir(), 'neap-series-'))
after(() => rmSync(directory, { recursive: true, force: true }))

const location = join(directory, 'repository')
const CATALOG = 'catalog'

/** A repository as an installation opens it that began a series with this passphrase. */
async function installation(passphrase: string, series: string) {
  const dataDir = join(directory, passphrase)
  await configureRepository(dataDir, location, { passphrase })
  return openRepository(dataDir, PROGRAM, series)
}

const skip = existsSync(PROGRAM) ? false : 'make peers brings pgBackRest'

test('a series is found beside those under other passphrases', { skip }, async () => {
  const described = { host_id: 'host-00000000', hostname: 'here' }
  for (const [passphrase, series, read_at] of [
    ['first', '00000001', '2026-01-01T00:00:00Z'],
    ['second', '00000002', '2026-01-02T00:00:00Z'],
    ['second', '00000003', '2026-01-03T00:00:00Z'],
  ] as const) {
    const repository = await installation(passphrase, series)
    await describeSeries(repository, described)
    const end = { segment: '000000010000000000000001', lsn: '0/1002000', read_at, content: Buffer.alloc(8192) }
    await pushWalEnd(repository, CATALOG, end)
  }
  const found = async (passphrase: string) =>
    (await listSeries(await installation(passphrase, ''), CATALOG)).map(({ series }) => series)
  deepEqual(await found('first'), ['00000001'])
  deepEqual(await found('second'), ['00000002', '00000003'])
  await rejects(found('another'), /another passphrase/)
})
