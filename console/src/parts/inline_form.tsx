import { useMutation } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useRef } from 'react'

interface InlineFormProps {
  readonly label: string
  /** The text of the button that sends the form. */
  readonly verb: string
  readonly children: ReactNode
  /** Sends it. Returns what to say of its success; undefined: nothing. */
  readonly submit: (fields: FormData) => Promise<string | undefined>
  /** Beside the button. */
  readonly beside?: ReactNode
}

/** A form on a page. Its passwords are emptied once it was sent; other fields stay. */
export function InlineForm({ label, verb, children, submit, beside }: InlineFormProps) {
  const form = useRef<HTMLFormElement>(null)
  const sent = useMutation({
    mutationFn: submit,
    onSuccess: () => {
      for (const field of form.current?.querySelectorAll<HTMLInputElement>('input[type=password]') ?? [])
        field.value = ''
    },
  })
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    sent.mutate(new FormData(event.currentTarget))
  }
  return (
    <form ref={form} onSubmit={send} aria-label={label} className="inline">
      {children}
      {sent.error && <p role="alert">{sent.error.message}</p>}
      <div className="buttons">
        <span role="status">{sent.data}</span>
        {beside}
        <button type="submit" className="main" disabled={sent.isPending}>
          {verb}
        </button>
      </div>
    </form>
  )
}
