import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { environmentWith } from '../config.ts'
import { UsageError } from '../errors.ts'

export interface PsqlTarget {
  readonly name: string
  /** Whether to look for the server on this machine, which does not resolve its name. */
  readonly isHere: boolean
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
  readonly options: string | undefined
  /** The authority of the server's certificate; undefined when that is the operator's own. */
  readonly authority: string | undefined
}

/**
 * Runs this machine's psql with these arguments, on the standard streams of this process, which takes over its exit
 * code. All connection parameters go through its environment, which other users cannot see (Postgres manual,
 * "Environment Variables" of libpq).
 * Errors: UsageError (psql is not installed).
 */
export async function runPsql(psqlArguments: readonly string[], place: PsqlTarget): Promise<void> {
  // Ctrl-C is for psql, which cancels a query on it.
  const ignore = (): void => {}
  process.on('SIGINT', ignore)
  try {
    const child = spawn('psql', psqlArguments, { stdio: 'inherit', env: environmentWith(variables(place)) })
    process.exitCode = await new Promise<number>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)))
    })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw new UsageError(
      'psql is not installed here, so it cannot be given arguments: ' +
        'install it (on Debian postgresql-client), or leave them out.',
      { cause: error },
    )
  } finally {
    process.off('SIGINT', ignore)
  }
}

function variables({ name, isHere, port, user, password, database, options, authority }: PsqlTarget) {
  return {
    PGHOST: name,
    PGHOSTADDR: isHere ? '127.0.0.1' : undefined,
    PGPORT: String(port),
    PGUSER: user,
    PGPASSWORD: password,
    PGDATABASE: database,
    PGOPTIONS: options,
    PGSERVICE: undefined,
    PGAPPNAME: 'neap psql',
    PGSSLMODE: authority === undefined ? 'require' : 'verify-full',
    PGSSLROOTCERT: authority,
    // The server proves over this connection that it knows the password (RFC 5802, section 6), with any certificate.
    PGCHANNELBINDING: 'require',
  }
}
