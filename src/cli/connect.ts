import { type Client, makeClient } from '../client.ts'
import { adminSocket, loadConfig, type Overrides } from '../config.ts'
import { UsageError } from '../errors.ts'

/** A client of the Neap that runs on this machine's data directory. Errors: UsageError when none does. */
export function localClient(flags: Overrides): Client {
  const config = loadConfig(flags)
  const call = makeClient({ socket: adminSocket(config) })
  return async (key, input) => {
    try {
      return await call(key, input)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? ''
      if (code === 'EACCES')
        throw new UsageError(`The Neap on ${config.dataDir} belongs to another user: run this as that user.`)
      if (['ENOENT', 'ECONNREFUSED'].includes(code))
        throw new UsageError(
          `No Neap runs on ${config.dataDir}: start it with make up (or npx neap up), or name another with --data-dir.`,
        )
      throw error
    }
  }
}
