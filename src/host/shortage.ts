import { existsSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf, UsageError } from '../errors.ts'
import { ConfigurationError, ServerStartError } from './failures.ts'
import { FencedError } from './fence.ts'

interface Shortage {
  /** Names of system errors. */
  readonly codes: readonly string[]
  /** Their wording in Postgres and libraries. */
  readonly words: RegExp
  readonly says: (directory: string) => string
}

/** The resources that a machine can lack, in the order of matching, with their remedies. */
const SHORTAGES: readonly Shortage[] = [
  {
    codes: [],
    words: /^(ENOSPC|EMFILE): .*, watch '/,
    says: () =>
      'This machine lets no more files be watched: ' +
      'raise fs.inotify.max_user_watches and fs.inotify.max_user_instances.',
  },
  { codes: ['EDQUOT'], words: /disk quota exceeded/i, says: (at) => `The disk quota for ${at} is used up: raise it.` },
  { codes: ['ENOSPC'], words: /no space left on device/i, says: fullDisk },
  { codes: ['EROFS'], words: /read-only file system/i, says: (at) => `${at} is mounted read-only: mount it writable.` },
  {
    codes: ['ENFILE'],
    words: /too many open files in system/i,
    says: () => 'This machine has as many files open as it may: raise fs.file-max.',
  },
  {
    codes: ['EMFILE'],
    words: /too many open files/i,
    says: () => 'A process has as many files open as it may: start Neap with a higher limit (ulimit -n).',
  },
  {
    codes: ['EAGAIN'],
    words: /could not fork|resource temporarily unavailable/i,
    says: () => 'This machine lets no more processes begin: raise its limit (ulimit -u, or that of the container).',
  },
  {
    codes: ['ENOMEM'],
    words: /cannot allocate memory|out of memory|could not map anonymous shared memory/i,
    says: () => 'This machine has too little memory: free some, or choose a smaller size or less shared_buffers.',
  },
  {
    codes: ['EACCES', 'EPERM'],
    words: /permission denied|operation not permitted/i,
    says: (at) => `Neap may not do that in ${at}: give its user access.`,
  },
  { codes: ['EIO'], words: /input\/output error/i, says: (at) => `The disk of ${at} fails: look at the kernel's log.` },
]

/** With less than this a server can neither write its log nor create a WAL segment. */
const LITTLE_BYTES = 2 ** 20

/**
 * Prefixes an error with the resource that the machine lacks and the remedy. Returns any other error unchanged.
 * @param directory holds the files that are written and read
 */
function plainly(error: unknown, directory: string): unknown {
  if (error instanceof FencedError || error instanceof ConfigurationError || error instanceof UsageError) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const message = messageOf(error)
  const shortage = SHORTAGES.find(({ codes, words }) => codes.includes(code) || words.test(message))
  // A server may have had no space to log why it ended.
  if (!shortage && !(error instanceof ServerStartError && isFull(directory))) return error
  return new Error(`${shortage?.says(directory) ?? fullDisk(directory)} (${message})`, { cause: error })
}

function fullDisk(directory: string): string {
  const room = roomIn(directory)
  if (room?.files === 0 && room.bytes >= LITTLE_BYTES)
    return `The disk of ${directory} has no inodes left: remove files there.`
  const grow = existsSync(join(directory, '..', 'image.xfs')) ? ' Or make its image larger: neap storage grow.' : ''
  return `The disk of ${directory} is full: make room there.${grow}`
}

function isFull(directory: string): boolean {
  const room = roomIn(directory)
  return room !== undefined && (room.bytes < LITTLE_BYTES || room.files === 0)
}

/** The free space of a filesystem. One that allocates inodes on demand reports a total of 0. */
function roomIn(directory: string): { bytes: number; files: number } | undefined {
  try {
    const { bsize, bavail, files, ffree } = statfsSync(directory)
    return { bytes: bsize * bavail, files: files === 0 ? Infinity : ffree }
  } catch {
    return undefined
  }
}

/** Wraps calls so that their errors name the resource that the machine lacks and the remedy. */
export function explainShortages<T extends object>(calls: T, directory: string): T {
  const plain = Object.entries(calls).map(([name, call]) => [
    name,
    async (...args: unknown[]): Promise<unknown> => {
      try {
        return await (call as (...given: unknown[]) => unknown)(...args)
      } catch (error) {
        throw plainly(error, directory)
      }
    },
  ])
  return Object.fromEntries(plain) as T
}
