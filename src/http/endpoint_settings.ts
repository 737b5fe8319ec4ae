import { type Static, Type } from 'typebox'
import { type Endpoint, PROVISIONERS } from '../catalog/endpoint.ts'
import { AppError } from '../errors.ts'

export const PreloadLibraries = Type.Object(
  { use_defaults: Type.Optional(Type.Boolean()), enabled_libraries: Type.Optional(Type.Array(Type.String())) },
  { description: 'Neap preloads no libraries: lists other than empty ones are refused' },
)

export const PgbouncerSettings = Type.Record(Type.String(), Type.String(), {
  description: 'Neap pools connections without PgBouncer: settings of it are refused',
})

const PgSettings = Type.Record(Type.String(), Type.String())
const others = {
  pgbouncer_settings: Type.Optional(PgbouncerSettings),
  preload_libraries: Type.Optional(PreloadLibraries),
}

/** The settings of an endpoint as they are asked for. */
export const EndpointSettings = Type.Object({ pg_settings: Type.Optional(PgSettings), ...others })

/** The same as they are answered. Source: the API's reference, whose endpoints all have `pg_settings`. */
export const ShownEndpointSettings = Type.Object({ pg_settings: PgSettings, ...others })

export const Provisioner = Type.String({
  description: `${PROVISIONERS.join(', ')}: kept and answered; every compute runs in the same way`,
})

/** What an endpoint has of its settings and its provisioner, with what it has where nothing was asked for. */
export function shownSettings({ settings: kept }: Pick<Endpoint, 'settings'>) {
  const { provisioner = PROVISIONERS[0], pg_settings = {}, ...settings } = kept
  return { provisioner, settings: { pg_settings, ...settings } satisfies Static<typeof ShownEndpointSettings> }
}

/** Errors: NOT_ALLOWED for a provisioner that clients would not know. */
export function requireProvisioner(provisioner: string | undefined): void {
  if (provisioner !== undefined && !PROVISIONERS.some((each) => each === provisioner))
    throw new AppError('NOT_ALLOWED', `provisioner is ${provisioner}; it takes ${PROVISIONERS.join(', ')}.`)
}

/** Errors: NOT_ALLOWED for libraries, of which Neap preloads none. */
export function requireNoPreload({ enabled_libraries = [] }: Static<typeof PreloadLibraries> = {}): void {
  if (enabled_libraries.length > 0)
    throw new AppError(
      'NOT_ALLOWED',
      'preload_libraries.enabled_libraries must be empty: Neap preloads no libraries. Leave it out.',
    )
}

/** Errors: NOT_ALLOWED for settings of a pooler that Neap does not have. */
export function requireNoPgbouncer(settings: Record<string, string> = {}): void {
  const [name] = Object.keys(settings)
  if (name !== undefined)
    throw new AppError(
      'NOT_ALLOWED',
      `pgbouncer_settings has ${name}, but Neap pools connections without PgBouncer. Leave it out.`,
    )
}
