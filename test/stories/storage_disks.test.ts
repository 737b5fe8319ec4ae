import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chownSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { closeImage } from '../../src/storage/image/open.ts'
import { query } from '../clients.ts'
import { checkClones, checkShared, dataDirOn, hash, start, stop, storage, TABLE } from '../image_disks.ts'
import { envOf, neapRun } from '../neap.ts'
import { withoutOrdinaryUser } from '../ordinary_user.ts'
import { firstPlace, suspend } from '../project.ts'
import { withoutFilesystems } from '../small_disk.ts'

/* The disks that stores lie on: full below an image, or with reflinks of their own. */

const skip = withoutFilesystems('xfs', 'btrfs', 'ext4')
const other = withoutOrdinaryUser()
const NOBODY = 65534

test('a full disk below fails no write in the image; a copy made sparse is reserved again', { skip }, async () => {
  const dataDir = dataDirOn('ext4', 'full', 4096)
  await storage(dataDir, 'init', '--size', '1500M')
  let neap = await start(dataDir)
  const place = await firstPlace(neap)
  await query(neap, place.uri, 'select 1')
  const filler = join(dataDir, 'filler')
  // The catalog's own reserve is beside it, so that its endpoint stays awake.
  execFileSync('sh', ['-c', `cat /dev/zero > ${filler} 2>/dev/null || true`])
  await query(neap, place.uri, TABLE)
  const rows = await hash(neap, place)
  rmSync(filler)
  await suspend(neap, place)
  await stop(neap)

  const image = join(dataDir, 'image.xfs')
  execFileSync('fallocate', ['--dig-holes', image])
  const blocks = () => statSync(image).blocks * 512
  assert.ok(blocks() < statSync(image).size)
  neap = await start(dataDir)
  assert.ok(blocks() >= statSync(image).size)
  assert.deepEqual(await hash(neap, place), rows)
  await stop(neap)
})

for (const kind of ['xfs', 'btrfs'] as const)
  test(`a data directory on ${kind} has clones without an image`, { skip }, async () => {
    const dataDir = dataDirOn(kind, kind, 2500)
    const neap = await start(dataDir)
    const place = await firstPlace(neap)
    await query(neap, place.uri, TABLE)
    await checkClones(neap, place)
    await checkShared(dataDir, 'reflink')
    await stop(neap)
    const { stderr } = await neapRun(['storage', 'init'], envOf(dataDir))
    assert.match(stderr, /needs no image/)
  })

test("an ordinary user's Neap uses the image that root has made and mounted", { skip: skip || other }, async () => {
  const dataDir = dataDirOn('ext4', 'ordinary', 2500)
  mkdirSync(dataDir, { mode: 0o711 })
  chownSync(dataDir, NOBODY, NOBODY)
  const asNobody = {
    through: ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'],
    env: { HOME: dataDir },
  }
  let neap = await start(dataDir, asNobody)
  assert.match(neap.stderr(), /sudo npx neap storage init --data-dir/)
  const place = await firstPlace(neap)
  await query(neap, place.uri, TABLE)
  const rows = await hash(neap, place)
  await stop(neap)
  await storage(dataDir, 'init', '--size', '1G')
  await assert.rejects(start(dataDir, asNobody), /sudo npx neap storage mount --data-dir/)
  await storage(dataDir, 'mount')
  neap = await start(dataDir, asNobody)
  assert.deepEqual(await hash(neap, place), rows)
  await checkClones(neap, place)
  await checkShared(dataDir, 'image')
  await stop(neap)
  assert.ok(await closeImage(dataDir))
})
