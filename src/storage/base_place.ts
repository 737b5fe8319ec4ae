import { readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** The directory of a base in the home of its store. */
export const baseOf = (home: string, number: number): string => join(home, 'bases', String(number))

/** The base that is being made, under its number once it is whole: another worker, or a later one, goes on with it. */
export const unfinishedBaseOf = (home: string): string => join(home, 'base.making')

/** The directories of the bases in a home, the latest first. */
export async function listBases(home: string): Promise<string[]> {
  const names = await readdir(join(home, 'bases')).catch(() => [])
  const numbers = names.map(Number).filter(Number.isInteger)
  return numbers.toSorted((a, b) => b - a).map((number) => baseOf(home, number))
}
