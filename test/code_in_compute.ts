import type pg from 'pg'
import { shell, superuser } from './admin.ts'
import type { Neap } from './neap.ts'
import type { Place } from './project.ts'

/**
 * Code in a compute. Its superuser stands in for a vulnerability in Postgres: COPY … PROGRAM runs a shell as the user
 * of the compute.
 */
export interface CodeInCompute {
  readonly session: pg.Client
  /** Returns the stdout and stderr of a shell script. */
  readonly shell: (script: string) => Promise<string>
}

export async function codeIn(neap: Neap, place: Place): Promise<CodeInCompute> {
  const session = await superuser(neap, place)
  await session.query('set statement_timeout = 20000')
  return { session, shell: (script) => shell(session, script) }
}
