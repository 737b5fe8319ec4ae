import { readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** The directory of a base in the home of its store. */
export const baseOf = (home: string, number: number): string => join(home, 'bases', String(number))

/** The base that is being made, under its number once it is whole: another worker, or a later one, goes on with it. */
export const unfinishedBaseOf = (home: string): string => join(home, 'base.making')

/** The directory of the latest base in a home; undefined when there is none. */
export async function latestBase(home: string): Promise<string | undefined> {
  const names = await readdir(join(home, 'bases')).catch(() => [])
  const numbers = names.map(Number).filter(Number.isInteger)
  return numbers.length === 0 ? undefined : baseOf(home, Math.max(...numbers))
}
