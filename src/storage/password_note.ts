import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from '../durable_file.ts'

/**
 * The note in a home: the id and generation of keys that the passwords of Neap's roles there derive from. Absent: the
 * password that all stores once shared.
 */
const noteOf = (home: string): string => join(home, 'password_of')

export const passwordNote = (home: string): string | undefined => {
  try {
    return readFileSync(noteOf(home), 'utf8')
  } catch {
    return undefined
  }
}

/** Durable when it resolves, since the key of the previous note may be destroyed then; replaced atomically. */
export const notePassword = (home: string, note: string): Promise<void> =>
  replaceFile(noteOf(home), 0o644, Buffer.from(note))

/** Copies the note with the data: a clone has its parent's passwords until its first start. */
export async function inheritPassword(from: string, to: string): Promise<void> {
  const note = passwordNote(from)
  if (note === undefined) rmSync(noteOf(to), { force: true })
  else await notePassword(to, note)
}
