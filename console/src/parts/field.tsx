import type { ReactNode } from 'react'

/** A field of a form, with its label and what may be said about it. */
export function Field({
  label,
  hint,
  children,
}: {
  readonly label: string
  readonly hint?: string
  readonly children: ReactNode
}) {
  return (
    <label className="field">
      <span>{label}</span>
      {children}
      {hint !== undefined && <small>{hint}</small>}
    </label>
  )
}

/** A field of a form as text; undefined when it is empty. */
export function textOf(fields: FormData, name: string): string | undefined {
  const value = fields.get(name)
  return typeof value === 'string' && value !== '' ? value : undefined
}
