/** The result of one check. */
export interface Finding {
  readonly what: string
  /** `note`: it works, with a caveat. */
  readonly level: 'ok' | 'note' | 'fails'
  /** With the remedy, if there is one. */
  readonly found: string
}

export const worst = (findings: readonly Finding[]): Finding['level'] =>
  (['fails', 'note'] as const).find((level) => findings.some((finding) => finding.level === level)) ?? 'ok'
