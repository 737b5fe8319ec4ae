/**
 * The kinds of settings' values: `parse` returns undefined for an invalid text, and `expects` describes the valid ones.
 */
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { isLoopback, isWildcard, plainAddress } from './network.ts'

export interface Setting<T> {
  /** The environment variable. */
  readonly env: string
  /** The flag of `neap up` (and of the parts it starts) that overrides the variable, if any. */
  readonly flag?: string
  readonly about: string
  readonly fallback: (dataDir: string) => T
  readonly parse: (text: string) => T | undefined
  /** The values that `parse` accepts, for the message about an invalid one. */
  readonly expects: string
}

export const setting = <T>(declared: Setting<T>): Setting<T> => declared

/** Characters of a host name, and its form: labels of at most 63 with dots between (RFC 1035, section 2.3.4). */
const MAX_NAME = 253
const HOST_NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/

export const file = { parse: (value: string) => resolve(value), expects: 'the path of a file' }
export const text = { parse: (value: string) => value || undefined, expects: 'some text' }
export const port = { parse: whole(0, 65535), expects: 'a port from 0 to 65535 (0 picks a free one)' }
export const name = {
  parse: (value: string) => (value.length <= MAX_NAME && HOST_NAME.test(value) ? value : undefined),
  expects: 'a host name in lower case',
}

export function seconds(least: number, most: number) {
  return { parse: whole(least, most), expects: `seconds from ${least} to ${most}` }
}

export function whole(least: number, most: number) {
  return (value: string) => {
    const number = Number(value)
    return /^-?\d+$/.test(value) && number >= least && number <= most ? number : undefined
  }
}

/** Directories of programs of Postgres, by version. */
export const postgresPrograms = {
  parse: (value: string) => {
    const pairs = value.split(',').map((each) => each.trim())
    const versions = new Set(pairs.map((pair) => pair.slice(0, 2)))
    return versions.size === pairs.length && pairs.every((pair) => /^1[5-8]=\/./.test(pair)) ? pairs : undefined
  },
  expects:
    'versions and directories of programs, each version once, as 17=/opt/postgres-17/bin,15=/usr/lib/postgresql/15/bin',
}

/** Below are users of the system; the last two that the kernel knows stand for none. */
const [MIN_UID, MAX_UID] = [1_000, 2 ** 32 - 3]
/** The uid of "nobody", who owns files of other machines. */
const NOBODY = 65_534

/** A range of uids. */
export const uids = {
  parse: (value: string) => {
    const [, first, last] = /^(\d{1,10})-(\d{1,10})$/.exec(value) ?? []
    const [from, to] = [Number(first ?? NaN), Number(last ?? NaN)]
    const isValid = from >= MIN_UID && to <= MAX_UID && from < to && !(from <= NOBODY && NOBODY <= to)
    return isValid ? `${from}-${to}` : undefined
  },
  expects: `a range from ${MIN_UID} to ${MAX_UID} without ${NOBODY}, as 1073741824-1074003967`,
}

export const quota = { parse: whole(1, 1_000_000), expects: 'a number from 1 to 1000000' }

/** Declares how many of something there may be by default. */
export const limit = (env: string, about: string, most: number): Setting<number> =>
  setting<number>({ env, ...quota, about, fallback: () => most })

const zeroForNone = { parse: whole(0, 10_000_000), expects: 'a number (0: no limit)' }
/** Declares a limit that may be lifted. */
export const optionalLimit = (env: string, about: string, most: number): Setting<number> =>
  setting<number>({ env, ...zeroForNone, about, fallback: () => most })

export const connections = { parse: whole(0, 10_000_000), expects: 'a number of connections (0: no limit)' }

/** Addresses of this machine to listen on, with commas between; 0.0.0.0 and :: stand for all. */
export const addresses = {
  parse: (value: string) => {
    const given = value.split(',').map((each) => each.trim())
    if (!given.every((each) => isIP(each) !== 0 && !each.includes('%'))) return undefined
    const all = [...new Set(given.map((each) => plainAddress(each) ?? each))]
    const overlap = all.some(
      (each) => isWildcard(each) && all.some((other) => other !== each && isIP(other) === isIP(each)),
    )
    return overlap ? undefined : all
  },
  expects:
    'IP addresses of this machine with commas between, as 127.0.0.1,10.0.0.5, ' +
    'or 0.0.0.0 or :: for all, which no other of its kind may stand beside',
}

/** A host name or an IP address. */
export const host = {
  parse: (value: string) =>
    name.parse(value) !== undefined || (isIP(value) !== 0 && !value.includes('%')) ? value : undefined,
  expects: 'a host name in lower case, or an IP address',
}

/** Networks as CIDR, with commas between. */
export const cidrs = {
  parse: (value: string) => {
    const all = value.split(',').map((each) => each.trim())
    const isCidr = (each: string) => {
      const [, network = '', prefix = ''] = /^([^/]+)\/(\d{1,3})$/.exec(each) ?? []
      return Number(prefix) <= ({ 4: 32, 6: 128 }[isIP(network)] ?? -1) && !network.includes('%')
    }
    return all.every(isCidr) ? all : undefined
  },
  expects: 'networks like 10.1.0.0/16,::1/128',
}

/** An issuer of OpenID Connect; its metadata are below it (OpenID Connect Discovery 1.0, section 4). */
export const issuer = (value: string): string | undefined => {
  if (!URL.canParse(value)) return undefined
  const { protocol, hostname, search, hash } = new URL(value)
  const isHere = hostname === 'localhost' || isLoopback(hostname.replace(/^\[|\]$/g, ''))
  if (search !== '' || hash !== '') return undefined
  return protocol === 'https:' || (protocol === 'http:' && isHere) ? value : undefined
}
