/**
 * The program that packs the data directory of a store, or unpacks it: `packer.ts pack|unpack HOME`. It holds the
 * store's server.lock, so no server runs meanwhile. If killed it leaves the data directory or the packed file whole.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  createReadStream,
  createWriteStream,
  existsSync,
  lstatSync,
  mkdirSync,
  opendirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { messageOf } from '../errors.ts'
import { syncDirectory } from '../durable_file.ts'
import { syncFilesystem } from '../host/durable.ts'
import { requireFree } from './copy_room.ts'
import { PACK_ERROR, PACKED_BYTES, PACKED_DATA, PACKED_FILE, PACKING_FILE, UNPACKING } from './pack.ts'

/** How many times the bytes of its blocks the files of a branch may have, and how many bytes more. */
const [MAX_RATIO, MAX_HOLES] = [2, 2 ** 30]
/** Of `blocks` in stat(2). */
const BLOCK_BYTES = 512

const [what, home = ''] = process.argv.slice(2)
const at = (name: string): string => join(home, name)
const remove = (name: string): void => rmSync(at(name), { recursive: true, force: true })

async function pack(): Promise<void> {
  remove(PACKING_FILE)
  if (existsSync(at('pgdata'))) {
    // Of an unpacking that was killed at its end.
    remove(PACKED_FILE)
    const { bytes, stored } = measure(at('pgdata'))
    // Code in a compute can make files of any size without blocks, which would take hours to read. Where the filesystem
    // compresses, little would be won.
    if (bytes > MAX_RATIO * stored + MAX_HOLES)
      throw new Error('The files of the branch have far more bytes than blocks, so they are not compressed.')
    await compress()
    await compare()
    writeFileSync(at(PACKED_BYTES), String(stored), { mode: 0o600 })
    renameSync(at(PACKING_FILE), at(PACKED_FILE))
    await syncDirectory(home)
    // A removal that is interrupted must leave no data directory in part.
    remove(PACKED_DATA)
    renameSync(at('pgdata'), at(PACKED_DATA))
    await syncDirectory(home)
  }
  if (!existsSync(at(PACKED_FILE))) throw new Error('The branch has no data here.')
  remove(PACKED_DATA)
}

async function unpack(): Promise<void> {
  remove(UNPACKING)
  if (!existsSync(at(PACKED_FILE))) throw new Error('The branch has no data here.')
  await requireFree(home, bytesToUnpack(), 'bringing the branch back')
  mkdirSync(at(UNPACKING), { mode: 0o700 })
  const tar = startTar(['-xipf', '-', '-C', at(UNPACKING)])
  await feed(at(PACKED_FILE), tar)
  await syncFilesystem(at(UNPACKING))
  renameSync(join(at(UNPACKING), 'pgdata'), at('pgdata'))
  await syncDirectory(home)
  for (const left of [PACKED_FILE, PACKED_BYTES, PACKED_DATA, UNPACKING]) remove(left)
}

/** Of an archive of an earlier Neap only the least is known. */
function bytesToUnpack(): number {
  const noted = existsSync(at(PACKED_BYTES)) ? Number(readFileSync(at(PACKED_BYTES), 'utf8')) : 0
  return noted || lstatSync(at(PACKED_FILE)).size
}

/** The bytes of all files below a directory, and those of them that have blocks. */
function measure(top: string): { bytes: number; stored: number } {
  let [bytes, stored] = [0, 0]
  const directories = [top]
  for (let path = directories.pop(); path !== undefined; path = directories.pop()) {
    const directory = opendirSync(path)
    for (let entry = directory.readSync(); entry; entry = directory.readSync()) {
      if (entry.isDirectory()) directories.push(join(path, entry.name))
      if (!entry.isFile()) continue
      const { size, blocks } = lstatSync(join(path, entry.name))
      bytes += size
      stored += Math.min(size, blocks * BLOCK_BYTES)
    }
    directory.closeSync()
  }
  return { bytes, stored }
}

const LEVEL = { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 }

async function compress(): Promise<void> {
  // Holes stay holes.
  const tar = startTar(['-Scf', '-', '-C', home, 'pgdata'])
  const file = createWriteStream(at(PACKING_FILE), { mode: 0o600 })
  if (!tar.child.stdout) throw new Error('tar has no output')
  await Promise.all([pipeline(tar.child.stdout, createZstdCompress({ params: LEVEL }), file), tar.succeeded])
  const written = await open(at(PACKING_FILE), 'r')
  await written.sync()
  await written.close()
}

/** Reads the packed file as an unpacking will, and compares it with the data, before these are removed. */
async function compare(): Promise<void> {
  await feed(at(PACKING_FILE), startTar(['-dif', '-', '-C', home]))
}

async function feed(path: string, { child, succeeded }: Tar): Promise<void> {
  if (!child.stdin) throw new Error('tar has no input')
  const unpacked = createZstdDecompress()
  const fed = pipeline(createReadStream(path), unpacked, child.stdin).catch((error: unknown) => {
    // Its input is closed as soon as tar has ended, which may be known before the end of what it was sent.
    if (!unpacked.readableEnded) throw error
  })
  const [sent, read] = await Promise.allSettled([fed, succeeded])
  for (const each of [sent, read]) if (each.status === 'rejected') throw each.reason as Error
}

interface Tar {
  readonly child: ChildProcess
  /** Errors: that it failed. */
  readonly succeeded: Promise<void>
}

/** Those that it started: one that is left would keep the store locked. */
const children: ChildProcess[] = []

/** With -i it reads its input to the end, so that the checksum there is seen. */
function startTar(args: readonly string[]): Tar {
  const child: ChildProcess = spawn('tar', ['--numeric-owner', ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(child)
  const succeeded = (async () => {
    const [code] = (await once(child, 'exit')) as [number | null]
    if (code !== 0) throw new Error(`tar ended with ${code ?? 'a signal'}; the log of the copy says why`)
  })()
  return { child, succeeded }
}

async function main(): Promise<void> {
  try {
    await (what === 'pack' ? pack() : unpack())
  } catch (error) {
    console.error(error)
    for (const child of children) child.kill('SIGKILL')
    process.exitCode = 1
    remove(PACKING_FILE)
    remove(UNPACKING)
    try {
      writeFileSync(at(PACK_ERROR), messageOf(error))
    } catch {
      // Without room for it either: the exit code is all there is, and the next call begins anew.
      remove(PACK_ERROR)
    }
  }
  remove('copier')
}

await main()
