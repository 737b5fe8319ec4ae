import { join } from 'node:path'
import { SOCKET_PATH_MAX } from './directories.ts'
import { UsageError } from './errors.ts'
import type { Setting } from './setting_kinds.ts'
import { SETTINGS } from './settings.ts'

export type Config = { readonly [Name in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Name]['fallback']> }
export type Overrides = { readonly [Name in keyof Config]?: string | undefined }

/**
 * One setting in force: a flag, else the environment, else the default.
 * Errors: UsageError that names the setting, what was wrong and what it takes.
 */
export function readSetting<Name extends keyof Config>(
  name: Name,
  overrides: Overrides = {},
  env: NodeJS.ProcessEnv = process.env,
): Config[Name] {
  const declared: Setting<unknown> = SETTINGS[name]
  const flagged = overrides[name]
  const value = flagged ?? env[declared.env]
  if (value === undefined || value === '')
    return declared.fallback(name === 'dataDir' ? '' : readSetting('dataDir', overrides, env)) as Config[Name]
  const parsed = declared.parse(value)
  if (parsed === undefined)
    throw new UsageError(
      `${flagged === undefined ? declared.env : declared.flag} is '${value}': it takes ${declared.expects}.`,
    )
  return parsed as Config[Name]
}

/** All settings in force. Errors: as of one. */
export function loadConfig(overrides: Overrides = {}, env: NodeJS.ProcessEnv = process.env): Config {
  const keys = Object.keys(SETTINGS) as (keyof Config)[]
  return Object.fromEntries(keys.map((key) => [key, readSetting(key, overrides, env)])) as unknown as Config
}

/** The environment for a process with the same settings. */
export function configEnv(config: Config): NodeJS.ProcessEnv {
  const keys = Object.keys(SETTINGS) as (keyof Config)[]
  const set = keys.filter((key) => config[key] !== undefined).map((key) => [SETTINGS[key].env, String(config[key])])
  return { ...process.env, ...(Object.fromEntries(set) as Record<string, string>) }
}

/**
 * The admin socket of the API: in the data directory, or in the runtime directory if that path is too long for a
 * socket.
 */
export function adminSocket(config: Pick<Config, 'dataDir' | 'runtimeDir'>): string {
  const path = join(config.dataDir, 'api.sock')
  return Buffer.byteLength(path) <= SOCKET_PATH_MAX ? path : join(config.runtimeDir, 'api.sock')
}

/** The environment for a child process, with some variables set and others (undefined) removed. */
export const environmentWith = (variables: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({ ...process.env, ...variables })
