import { join, resolve } from 'node:path'
import { defaultDataDir } from './directories.ts'
import { UsageError } from './errors.ts'
import type { Setting } from './setting_kinds.ts'
import { SETTINGS } from './settings.ts'

export type Config = { readonly [Name in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Name]['fallback']> }
export type Overrides = { readonly [Name in keyof Config]?: string | undefined }

/**
 * The settings in force: a flag, else the environment, else the default.
 * Errors: UsageError that names the setting, what was wrong and what it takes.
 */
export function loadConfig(overrides: Overrides = {}, env: NodeJS.ProcessEnv = process.env): Config {
  const given = (key: keyof Config) => {
    const declared: Setting<unknown> = SETTINGS[key]
    const flagged = overrides[key]
    const value = flagged ?? env[declared.env]
    if (value === undefined || value === '') return undefined
    const parsed = declared.parse(value)
    if (parsed === undefined)
      throw new UsageError(
        `${flagged === undefined ? declared.env : declared.flag} is '${value}': it takes ${declared.expects}.`,
      )
    return parsed
  }
  const dataDir = resolve((given('dataDir') as string | undefined) ?? defaultDataDir())
  const keys = Object.keys(SETTINGS) as (keyof Config)[]
  const config = Object.fromEntries(keys.map((key) => [key, given(key) ?? SETTINGS[key].fallback(dataDir)]))
  return { ...config, dataDir } as unknown as Config
}

/** The environment for a process with the same settings. */
export function configEnv(config: Config): NodeJS.ProcessEnv {
  const keys = Object.keys(SETTINGS) as (keyof Config)[]
  const set = keys.filter((key) => config[key] !== undefined).map((key) => [SETTINGS[key].env, String(config[key])])
  return { ...process.env, ...(Object.fromEntries(set) as Record<string, string>) }
}

const SOCKET_PATH_MAX = 107

/**
 * The admin socket of the API: in the data directory, or in the runtime directory if that path is too long for a
 * socket.
 */
export function adminSocket(config: Config): string {
  const path = join(config.dataDir, 'api.sock')
  return Buffer.byteLength(path) <= SOCKET_PATH_MAX ? path : join(config.runtimeDir, 'api.sock')
}

/** The environment for a child process, with some variables set and others (undefined) removed. */
export const environmentWith = (variables: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({ ...process.env, ...variables })
