import { type PreloadLibraries, PROVISIONERS } from '../catalog/endpoint.ts'
import { AppError } from '../errors.ts'

/** Errors: NOT_ALLOWED (a provisioner that clients do not know). */
export function requireProvisioner(provisioner: string | undefined): void {
  if (provisioner !== undefined && !PROVISIONERS.some((each) => each === provisioner))
    throw new AppError('NOT_ALLOWED', `provisioner is ${provisioner}; it takes ${PROVISIONERS.join(', ')}.`)
}

/** Errors: NOT_ALLOWED (a preloaded library: Neap preloads no libraries). */
export function requireNoPreload({ enabled_libraries = [] }: PreloadLibraries = {}): void {
  if (enabled_libraries.length > 0)
    throw new AppError(
      'NOT_ALLOWED',
      'preload_libraries.enabled_libraries must be empty: Neap preloads no libraries. Leave it out.',
    )
}

/** Errors: NOT_ALLOWED (any setting of PgBouncer, which Neap does not use). */
export function requireNoPgbouncer(settings: Record<string, string> = {}): void {
  const [name] = Object.keys(settings)
  if (name !== undefined)
    throw new AppError(
      'NOT_ALLOWED',
      `pgbouncer_settings has ${name}, but Neap pools connections without PgBouncer. Leave it out.`,
    )
}
