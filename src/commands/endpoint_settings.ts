import { type PreloadLibraries, PROVISIONERS } from '../catalog/endpoint.ts'
import { AppError } from '../errors.ts'

/** Errors: NOT_ALLOWED for a provisioner that clients would not know. */
export function requireProvisioner(provisioner: string | undefined): void {
  if (provisioner !== undefined && !PROVISIONERS.some((each) => each === provisioner))
    throw new AppError('NOT_ALLOWED', `provisioner is ${provisioner}; it takes ${PROVISIONERS.join(', ')}.`)
}

/** Errors: NOT_ALLOWED for libraries, of which Neap preloads none. */
export function requireNoPreload({ enabled_libraries = [] }: PreloadLibraries = {}): void {
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
