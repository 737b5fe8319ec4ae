/** What was found of one thing that clients meet. */
export interface Finding {
  readonly what: string
  /** `note`: it works, and may surprise. */
  readonly level: 'ok' | 'note' | 'fails'
  /** With what to do, where there is something. */
  readonly found: string
}

export const worst = (findings: readonly Finding[]): Finding['level'] =>
  (['fails', 'note'] as const).find((level) => findings.some((finding) => finding.level === level)) ?? 'ok'
