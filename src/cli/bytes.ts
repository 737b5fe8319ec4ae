import { InvalidArgumentError } from 'commander'

const UNITS = ['', 'K', 'M', 'G', 'T'] as const

/** Reads a size in bytes: `200G`, `512MiB`, `1.5T`; units are powers of 1,024. */
export function byteSize(text: string): number {
  const [, count, unit = ''] = /^(\d{1,15}(?:\.\d{1,3})?)([KMGT]?)(?:i?B)?$/i.exec(text) ?? []
  const bytes = Math.floor(Number(count) * 1024 ** UNITS.indexOf(unit.toUpperCase() as (typeof UNITS)[number]))
  if (!Number.isSafeInteger(bytes)) throw new InvalidArgumentError('It takes a size like 200G or 512M.')
  return bytes
}
