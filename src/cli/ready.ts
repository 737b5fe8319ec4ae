import { SETTINGS } from '../settings.ts'
import type { Ready } from '../supervisor/up.ts'

/** Prints that Neap is ready: one line of JSON, or the next steps for a new user. */
export function printReady(ready: Ready, json: boolean): void {
  process.stdout.write(json ? `${JSON.stringify(ready)}\n` : `${lines(ready).join('\n')}\n`)
}

function lines(ready: Ready): string[] {
  const uri = ready.connection_uri
  // Commands in another shell use the default directory.
  const where = ready.data_dir === SETTINGS.dataDir.fallback('') ? '' : ` --data-dir ${quoted(ready.data_dir)}`
  const operations =
    ready.project_id &&
    `curl -H "Authorization: Bearer $NEAP_API_KEY" ${ready.api_url}/projects/${ready.project_id}/operations`
  return [
    '',
    '  Neap is up.',
    '',
    `  Console  ${ready.console_url}`,
    '           (signs you in once; another link: npx neap sign-in)',
    `  API      ${ready.api_url}`,
    `  Key      ${ready.api_key ?? `kept as a hash only; make another with: npx neap keys create${where}`}`,
    '  Proxy    ' +
      `${ready.proxy_host}:${ready.proxy_port}${ready.extra_proxy_port ? ` and ${ready.extra_proxy_port}` : ''}  ` +
      `(TLS; ${ready.ca_file ? `its authority: ${ready.ca_file}` : 'your certificate'})`,
    `  Data     ${ready.data_dir}`,
    ...(uri ? ['', '  Connect:', '', `    psql '${uri}'`, '', '  Without psql:', '', `    npx neap psql${where}`] : []),
    '',
    '  Try next:',
    '',
    `    npx neap status${where}`,
    ...(operations
      ? [`    export NEAP_API_KEY=${ready.api_key ?? '<your key>'}`, `    ${operations}`]
      : [`    npx neap key list${where}`, '    npx neap --help']),
    '',
    '  Ctrl-C suspends every database and ends Neap.',
    '',
  ]
}

/** A word as a POSIX shell takes it. */
const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
