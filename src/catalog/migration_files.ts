import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { UsageError } from '../errors.ts'

const FOLDER = fileURLToPath(new URL('../../migrations/', import.meta.url))

export interface MigrationFile {
  readonly name: string
  readonly text: string
  /** SHA-256 of the text, in hexadecimal. */
  readonly checksum: string
}

/** A migration as the catalog records it; those applied before checksums were recorded have none. */
export interface AppliedMigration {
  readonly name: string
  readonly checksum: string | null
}

/** The migrations of this version, in order. */
export async function migrationFiles(): Promise<MigrationFile[]> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(`${FOLDER}${name}`, 'utf8')
      return { name, text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

/**
 * The migrations that a catalog lacks.
 * Errors: UsageError (a newer version has migrated it, or a migration was applied with another text).
 */
export function missingMigrations(
  files: readonly MigrationFile[],
  applied: readonly AppliedMigration[],
): MigrationFile[] {
  const known = new Map(files.map((file) => [file.name, file]))
  const recorded = new Map(applied.map((each) => [each.name, each]))
  for (const { name, checksum } of applied) {
    const file = known.get(name)
    if (!file) {
      const version = name > (files.at(-1)?.name ?? '') ? 'a newer Neap' : 'another version of Neap'
      throw new UsageError(
        `The catalog was made by ${version} (it has ${name}). Start that version, or give another --data-dir.`,
      )
    }
    if (checksum !== null && checksum !== file.checksum)
      throw new UsageError(
        `The catalog was made by a version of Neap with another ${name}, so its tables may differ from what this ` +
          'version expects. Start that version, or give another --data-dir.',
      )
  }
  return files.filter(({ name }) => !recorded.has(name))
}
