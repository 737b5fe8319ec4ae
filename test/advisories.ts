/*
 * Asks the registry for published advisories about the lock file's production packages; fails on a high or critical
 * one.
 */
import { spawnSync } from 'node:child_process'

interface Report {
  readonly message?: string
  readonly vulnerabilities?: Readonly<Record<string, { readonly severity: string; readonly range: string }>>
}

/**
 * Reads the output of `npm audit --json`: the lines to show, and whether to fail. A registry that serves no advisories
 * is not a failure.
 */
export function verdict(output: string): { readonly lines: readonly string[]; readonly fails: boolean } {
  const report = parse(output)
  if (!report.vulnerabilities)
    return { lines: [`advisories: not checked: ${report.message ?? 'npm audit gave no report'}`], fails: false }
  const grave = Object.entries(report.vulnerabilities).filter(([, { severity }]) => /^(high|critical)$/.test(severity))
  if (grave.length === 0) return { lines: ['advisories: none that is high or critical'], fails: false }
  return {
    lines: grave.map(([name, { severity, range }]) => `advisories: ${name} ${range}: ${severity}; see npm audit`),
    fails: true,
  }
}

function parse(output: string): Report {
  try {
    return JSON.parse(output) as Report
  } catch {
    return {}
  }
}

if (process.argv[1] === import.meta.filename) {
  const asked = ['audit', '--json', '--omit=dev', '--package-lock-only', '--fetch-retries=0', '--fetch-timeout=10000']
  const { stdout } = spawnSync('npm', asked, { encoding: 'utf8', timeout: 60_000 })
  const { lines, fails } = verdict(stdout ?? '')
  process.stderr.write(`${lines.join('\n')}\n`)
  process.exitCode = fails ? 1 : 0
}
