import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { AppError } from '../errors.ts'

export interface Side {
  readonly label: string
  readonly text: string
}

const PATIENCE_MS = 10_000
const MAX_BYTES = 32 * 2 ** 20

/**
 * Returns the difference of two texts as `diff -u` prints it; empty if they are equal. It runs as a program of its own,
 * since texts with little in common may take long.
 * Errors: NOT_INSTALLED (this machine has no diff); NOT_ALLOWED (it takes too long, or prints over MAX_BYTES).
 */
export async function unifiedDiff(base: Side, changed: Side): Promise<string> {
  if (base.text === changed.text) return ''
  const directory = await mkdtemp(join(tmpdir(), 'neap-diff-'))
  try {
    const files = [join(directory, 'base'), join(directory, 'changed')] as const
    await Promise.all([writeFile(files[0], base.text), writeFile(files[1], changed.text)])
    const args = ['-u', `--label=${base.label}`, `--label=${changed.label}`, ...files]
    return await promisify(execFile)('diff', args, { timeout: PATIENCE_MS, maxBuffer: MAX_BYTES }).then(
      ({ stdout }) => stdout,
      printed,
    )
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Exit code 1 means that the files differ. */
function printed(error: Error & { code?: number | string; stdout?: string }): string {
  if (error.code === 1) return error.stdout ?? ''
  if (error.code === 'ENOENT')
    throw new AppError(
      'NOT_INSTALLED',
      'This machine has no diff, which compares schemas. Install diffutils where Neap runs.',
    )
  throw new AppError(
    'NOT_ALLOWED',
    'These schemas could not be compared in time: fetch them and compare them yourself.',
    {
      cause: error,
    },
  )
}
