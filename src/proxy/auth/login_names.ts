import type { Startup } from '../wire/startup.ts'

/** Postgres truncates longer names (NAMEDATALEN): another role or database than the shown one could be meant. */
const MAX_NAME_BYTES = 63
/** Postgres keeps as much of an application name. */
const MAX_APPLICATION_BYTES = 63

/** The names in a startup packet, as a person is shown them. */
export interface LoginNames {
  readonly role: string
  readonly database: string
  readonly application: string
}

/** Returns undefined when a name is too long, or is not UTF-8, so that it could not be shown as it is. */
export function loginNames(role: string, { parameters }: Startup): LoginNames | undefined {
  const textOf = (name: string): string => Buffer.from(parameters.get(name) ?? '', 'latin1').toString()
  const database = textOf('database') || role
  const isShowable = (name: string): boolean =>
    Buffer.byteLength(name) <= MAX_NAME_BYTES && !/[\p{C}\p{Zl}\p{Zp}\ufffd]/u.test(name)
  if (!isShowable(role) || !isShowable(database)) return undefined
  const application = textOf('application_name').replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '\ufffd')
  return { role, database, application: application.slice(0, MAX_APPLICATION_BYTES) }
}
