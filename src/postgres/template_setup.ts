/** The arguments of initdb for a template: what every store inherits for ever. */
export function initdbArgs(pgdata: string, pgVersion: number): string[] {
  // The builtin locale sorts the same everywhere; a libc's locale changes with the libc, which would silently corrupt
  // indexes.
  const locale =
    pgVersion >= 17 ? ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : ['--locale=C.UTF-8']
  const options = [
    '-U',
    'neap_admin',
    '-E',
    'UTF8',
    '--auth=reject',
    '--data-checksums',
    '--no-sync',
    '--no-instructions',
  ]
  return ['-D', pgdata, ...options, ...locale]
}

/**
 * The roles and the database of Neap's own in a template. One statement a line, as single-user mode with -j reads them:
 * separated by an empty line.
 */
export function setupSql(pgVersion: number, verifier: string): string {
  const member = ['pg_read_all_data', 'pg_write_all_data', 'pg_monitor', 'pg_signal_backend']
  if (pgVersion >= 16) member.push('pg_create_subscription')
  const statements = [
    `ALTER ROLE neap_admin PASSWORD '${verifier}'`,
    'CREATE ROLE neap_superuser NOLOGIN',
    `GRANT ${member.join(', ')} TO neap_superuser`,
    'CREATE DATABASE neap',
    'REVOKE ALL ON DATABASE neap FROM PUBLIC',
  ]
  return statements.map((statement) => `${statement};\n\n`).join('')
}
