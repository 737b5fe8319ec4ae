import { type ApiClient, makeClient, type ApiTarget } from '../client.ts'
import { adminSocket, type Overrides, readSetting } from '../config.ts'
import { AppError, messageOf, UsageError } from '../errors.ts'

/** The API that a command calls: the one at an address, else that of the Neap on this machine. */
export interface Access {
  readonly dataDir?: string
  readonly apiUrl?: string
  readonly apiKey?: string
}

/** A client of the API that the flags name. Errors: UsageError when it cannot be reached. */
export function apiClient({ dataDir, apiUrl, apiKey }: Access): ApiClient {
  if (!apiUrl) return localClient({ ...(dataDir !== undefined && { dataDir }) })
  if (!/^https?:\/\//.test(apiUrl) || !URL.canParse(apiUrl))
    throw new UsageError(`'${apiUrl}' is not the address of an API; one looks like http://127.0.0.1:7070`)
  if (!apiKey)
    throw new UsageError(
      `The API at ${apiUrl} needs a key: set NEAP_API_KEY, or give --api-key. neap keys create makes one.`,
    )
  return reaching({ url: apiUrl, key: apiKey }, async (error) => {
    const { code } = error as NodeJS.ErrnoException
    return new UsageError(`Cannot reach the API at ${apiUrl}: ${messageOf(error) || code}`, { cause: error })
  })
}

/** A client of the Neap that runs on this machine's data directory. Errors: UsageError (no Neap runs there). */
export function localClient(flags: Overrides): ApiClient {
  const dataDir = readSetting('dataDir', flags)
  const socket = adminSocket({
    dataDir,
    // Found only where it is needed: its default takes a hash of node:crypto, which takes milliseconds to load.
    get runtimeDir() {
      return readSetting('runtimeDir', flags)
    },
  })
  return reaching({ socket }, async (error) => {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (code === 'EACCES')
      return new UsageError(`The Neap on ${dataDir} belongs to another user: run this as that user.`)
    if (!['ENOENT', 'ECONNREFUSED'].includes(code)) return error
    // Loaded where it is needed: each command would take longer.
    const { isSupervised } = await import('../supervisor/stale_parts.ts')
    return new UsageError(
      isSupervised(dataDir)
        ? `The Neap on ${dataDir} runs, and its API does not: it is starting, or ending. Try again in some seconds.`
        : `No Neap runs on ${dataDir}: start it with make up (or npx neap up), or name another with --data-dir.`,
    )
  })
}

function reaching(target: ApiTarget, explain: (error: unknown) => Promise<unknown>): ApiClient {
  const call = makeClient(target)
  return async (key, input, options) => {
    try {
      return await call(key, input, options)
    } catch (error) {
      throw error instanceof AppError ? error : await explain(error)
    }
  }
}
