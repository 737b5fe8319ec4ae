import type pg from 'pg'
import { shell, superuser } from './admin.ts'
import type { Neap } from './neap.ts'
import type { Place } from './project.ts'

/** Code in a compute. A hole in Postgres is played by its superuser, whose COPY … PROGRAM runs a shell as the user of the compute. */
export interface CodeInCompute {
  readonly session: pg.Client
  /** What a shell prints, errors too. */
  readonly shell: (script: string) => Promise<string>
}

export async function codeIn(neap: Neap, place: Place): Promise<CodeInCompute> {
  const session = await superuser(neap, place)
  await session.query('set statement_timeout = 20000')
  return { session, shell: (script) => shell(session, script) }
}
