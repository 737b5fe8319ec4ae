import { isIP } from 'node:net'
import { type Static, Type } from 'typebox'
import { AppError } from '../errors.ts'

/** The settings of a project that Neap knows. What it cannot do is declared to be refused when it is asked for. */
export const ProjectSettings = Type.Object({
  allowed_ips: Type.Optional(
    Type.Object({
      ips: Type.Optional(Type.Array(Type.String())),
      protected_branches_only: Type.Optional(Type.Boolean()),
    }),
  ),
  enable_logical_replication: Type.Optional(
    Type.Boolean({ description: 'Whether roles may replicate: read changes from slots, and be subscribed to' }),
  ),
  block_public_connections: Type.Optional(Type.Boolean()),
  block_vpc_connections: Type.Optional(Type.Boolean()),
  hipaa: Type.Optional(Type.Boolean()),
})

const NOT_AVAILABLE = ['block_public_connections', 'block_vpc_connections', 'hipaa'] as const

/** Errors: NOT_ALLOWED for a setting that Neap cannot do, and for what is no address. */
export function requireProjectSettings(settings: Static<typeof ProjectSettings> = {}): void {
  const asked = NOT_AVAILABLE.find((name) => settings[name])
  if (asked) throw new AppError('NOT_ALLOWED', `The project setting ${asked} is not available here.`)
  const wrong = settings.allowed_ips?.ips?.find((each) => !isAddressRange(each))
  if (wrong !== undefined)
    throw new AppError(
      'NOT_ALLOWED',
      `allowed_ips has ${JSON.stringify(wrong)}: give an address, a CIDR range such as 10.0.0.0/8, or two addresses with a dash between.`,
    )
}

function isAddressRange(text: string): boolean {
  const [first = '', last] = text.split('-')
  if (last !== undefined) return isIP(first) !== 0 && isIP(first) === isIP(last)
  const [address = '', prefix] = text.split('/')
  const version = isIP(address)
  return (
    version !== 0 &&
    (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128)))
  )
}
