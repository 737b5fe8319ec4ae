/** Postgres refuses the settings that it was given, or has no data: the same start will fail again. */
export class ConfigurationError extends Error {
  override readonly name: string = 'ConfigurationError'
}

/** The passwords of a store are under a key that is not in the key file, and may still exist somewhere. */
export class UnknownKeyError extends ConfigurationError {
  override readonly name = 'UnknownKeyError'
}

/** Postgres ended before it was ready; the message carries the errors in its log. */
export class ServerStartError extends Error {
  override readonly name = 'ServerStartError'
}
