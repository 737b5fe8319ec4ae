import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { layoutOf } from '../host/layout.ts'
import { mountXfs, withoutFilesystems } from '../../test/small_disk.ts'
import { measureSpace } from './space.ts'

const skip = withoutFilesystems('xfs')
const MIB = 2 ** 20
const undo: (() => void)[] = []
after(() => undo.toReversed().forEach((step) => step()))

/** A directory, and functions that write random blocks to a file there and clone one. */
function newDirectory() {
  const base = mkdtempSync(join(tmpdir(), 'neap-space-'))
  undo.push(() => rmSync(base, { recursive: true }))
  const place = (name: string): string => {
    const path = join(base, 'data', name)
    mkdirSync(dirname(path), { recursive: true })
    return path
  }
  const write = (name: string, mebibytes: number): void => writeFileSync(place(name), randomBytes(mebibytes * MIB))
  const overwrite = (name: string, mebibytes: number): void =>
    writeFileSync(place(name), randomBytes(mebibytes * MIB), { flag: 'r+' })
  const clone = (from: string, to: string): void =>
    copyFileSync(place(from), place(to), constants.COPYFILE_FICLONE_FORCE)
  return { base, layout: layoutOf({ dataDir: join(base, 'data'), runtimeDir: base }), write, overwrite, clone }
}

test('a store has alone what no other store and no template has, also twice in itself', { skip }, async () => {
  const { base, layout, write, overwrite, clone } = newDirectory()
  undo.push(mountXfs(layout.dataDir, join(base, 'disk'), 400))
  write('templates/18/pgdata/file', 10)
  for (const store of ['one', 'other']) clone('templates/18/pgdata/file', `branches/${store}/pgdata/template`)
  write('branches/one/pgdata/based', 20)
  clone('branches/one/pgdata/based', 'branches/one/bases/1/pgdata/based')
  // Four of the base are now those of the history alone.
  overwrite('branches/one/pgdata/based', 4)
  write('branches/one/wal/segment', 3)
  write('branches/one/pgdata/shared', 30)
  clone('branches/one/pgdata/shared', 'branches/child/pgdata/shared')
  overwrite('branches/child/pgdata/shared', 5)
  clone('branches/one/pgdata/shared', 'branches/unknown/pgdata/shared')
  rmSync(join(layout.branches, 'unknown'), { recursive: true })
  execFileSync('sync', ['--file-system', layout.dataDir])

  const projects = [
    { id: 'p', stores: ['one', 'child'] },
    { id: 'q', stores: ['other'] },
  ]
  for (const share of [undefined, 0.5]) {
    const found = await measureSpace(layout, async () => false, projects, share)
    const inMib = found.stores.map(({ apparent_bytes, own_bytes, history_bytes, is_exact }) => [
      apparent_bytes / MIB,
      (own_bytes ?? 0) / MIB,
      (history_bytes ?? 0) / MIB,
      is_exact,
    ])
    // 24 of "based", 3 of WAL, and the 5 that the child has overwritten.
    assert.deepEqual(inMib, [
      [83, 32, 7, true],
      [30, 5, 0, true],
      [10, 0, 0, true],
    ])
    assert.deepEqual(found.projects, [
      { id: 'p', apparent_bytes: 113 * MIB, real_bytes: 62 * MIB, shared_bytes: 25 * MIB },
      { id: 'q', apparent_bytes: 10 * MIB, real_bytes: 0, shared_bytes: 0 },
    ])
    assert.equal(found.other_bytes, 10 * MIB)
  }

  // The blocks of a store that the caller does not name are shared all the same, and so are those of a template.
  const alone = await measureSpace(layout, async () => false, [{ id: 'p', stores: ['one'] }])
  assert.equal(alone.stores[0]?.own_bytes, 32 * MIB)
  assert.equal(alone.other_bytes, 10 * MIB)
})

test('all blocks of a copy are its own, also where the filesystem tells nothing', async () => {
  const { layout, write } = newDirectory()
  write('branches/one/pgdata/file', 1)
  write('branches/one/wal/segment', 2)
  const [found] = (await measureSpace(layout, async () => true, [{ id: 'p', stores: ['one'] }])).stores
  assert.equal(found?.own_bytes, 3 * MIB)
  assert.equal(found.apparent_bytes, 3 * MIB)
})
