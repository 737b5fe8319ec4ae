import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { closeImage, openImage } from '../../src/storage/image/open.ts'
import { query } from '../clients.ts'
import {
  checkClones,
  checkShared,
  dataDirOn,
  hash,
  loopDevices,
  start,
  statusOf,
  stop,
  storage,
  TABLE,
} from '../image_disks.ts'
import { appears } from '../local_host.ts'
import { envOf, neapRun, spawnNeap } from '../neap.ts'
import { branchOff, firstPlace } from '../project.ts'
import { withoutFilesystems } from '../small_disk.ts'

/* The stores of a data directory in an XFS image, on a disk whose filesystem clones no files. */

const skip = withoutFilesystems('xfs', 'ext4')

test('branches move into an image, where they are cloned; it is mounted again at each start', { skip }, async () => {
  const dataDir = dataDirOn('ext4', 'moved', 6144)
  let neap = await start(dataDir)
  const place = await firstPlace(neap)
  await query(neap, place.uri, TABLE)
  const rows = await hash(neap, place)
  const copied = await branchOff(neap, place)
  const report = await statusOf(dataDir)
  assert.equal(report.mode, 'copy')
  assert.match(report.advice ?? '', /neap storage init/)
  assert.match(neap.stderr(), /copied byte by byte.*npx neap storage init/s)
  const refused = await neapRun(['storage', 'init'], envOf(dataDir))
  assert.match(refused.stderr, /end it first/)
  await stop(neap)

  await storage(dataDir, 'init', '--size', '1500M')
  neap = await start(dataDir)
  assert.deepEqual(await hash(neap, place), rows)
  assert.deepEqual(await hash(neap, copied), rows)
  await checkClones(neap, place)
  await checkShared(dataDir, 'image')

  // A second one on the same directory is refused, and leaves the mount alone.
  const second = await neapRun(['up', '--api-port', '0', '--proxy-port', '0'], envOf(dataDir))
  assert.match(second.stderr, /runs already/)
  assert.equal(loopDevices(dataDir).length, 1)

  await storage(dataDir, 'grow', '2G')
  await storage(dataDir, 'trim', '--keep', '100M')
  const trimmed = await statusOf(dataDir)
  assert.equal(trimmed.image?.bytes, 2 ** 31)
  assert.ok(
    trimmed.image.trimmed_bytes > 0 && trimmed.image.reserved_bytes < 2 ** 31 - trimmed.image.trimmed_bytes + 2 ** 20,
  )
  assert.deepEqual(await hash(neap, place), rows)
  await storage(dataDir, 'grow', '2G')
  assert.ok(((await statusOf(dataDir)).image?.reserved_bytes ?? 0) >= 2 ** 31)

  // Killed: computes run on, and the next start finds the mount.
  await stop(neap, 'kill')
  neap = await start(dataDir)
  assert.equal(loopDevices(dataDir).length, 1)
  assert.deepEqual(await hash(neap, place), rows)
  await stop(neap)
  assert.deepEqual(loopDevices(dataDir), [])

  const elsewhere = `${dataDir}-moved`
  renameSync(dataDir, elsewhere)
  neap = await start(elsewhere)
  assert.deepEqual(await hash(neap, place), rows)
  await stop(neap)
})

test('an init that is killed anywhere is undone or completed by the next start', { skip }, async () => {
  const dataDir = dataDirOn('ext4', 'killed', 2048)
  mkdirSync(dataDir, { mode: 0o711 })
  for (const id of ['br-one', 'br-two']) {
    mkdirSync(join(dataDir, 'branches', id, 'pgdata'), { recursive: true })
    for (let file = 0; file < 40; file++)
      writeFileSync(join(dataDir, 'branches', id, 'pgdata', String(file)), randomBytes(2 ** 20))
  }
  const content = () =>
    execFileSync('sh', ['-c', "find branches/ -path '*/pgdata/*' -exec md5sum {} + | sort"], { cwd: dataDir })
  const before = content()
  // The link "removed" is the last one, before the copies.
  const steps = ['image.xfs.making', 'image.making', 'branches.aside', 'removed', 'image.xfs']
  for (const step of steps) {
    const init = spawnNeap(['storage', 'init', '--size', '600M'], envOf(dataDir))
    await Promise.race([
      appears(dataDir, () => lstatSync(join(dataDir, step), { throwIfNoEntry: false })),
      once(init, 'exit'),
    ])
    assert.equal(init.exitCode, null, `init ended before ${step}`)
    const ended = once(init, 'exit')
    init.kill('SIGKILL')
    await ended
    await openImage(dataDir)
    assert.deepEqual(content(), before, `after a kill at ${step}`)
    assert.equal(existsSync(join(dataDir, 'branches.aside')), false)
    assert.equal(existsSync(join(dataDir, 'image.xfs.making')), false)
    assert.equal(existsSync(join(dataDir, 'image.xfs')), step === 'image.xfs')
  }
  assert.equal(loopDevices(dataDir).length, 1)
  assert.ok(await closeImage(dataDir))
  assert.equal(await openImage(dataDir), undefined)
  assert.deepEqual(content(), before)
  assert.ok(await closeImage(dataDir))
})
