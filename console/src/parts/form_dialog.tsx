import { Dialog } from '@base-ui/react/dialog'
import { useMutation } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useId, useRef, useState } from 'react'
import { useSearchParams } from 'wouter'
import type { Prepared } from '../api.ts'
import { useWhyViewOnly } from '../organizations_query.ts'
import { AsCommand } from './as_command.tsx'
import { Field, textOf } from './field.tsx'

interface FormDialogProps<Answer> {
  /** The text of the button that opens the dialog. */
  readonly opener: ReactNode
  readonly title: string
  /** The name by which an address opens it: `?do=<action>`. */
  readonly action?: string
  /** The text of the button that sends the form. */
  readonly verb: string
  readonly isDangerous?: boolean
  /** Why it cannot be done now; undefined where it can. */
  readonly unavailable?: string | undefined
  /** Whether it changes what is the person's own: viewers may do that too. */
  readonly isPersonal?: boolean
  /** A name to type before the form is sent. */
  readonly confirm?: string
  readonly children?: ReactNode
  /** The request that the form asks for. Throws an Error whose message says which field is wrong. */
  readonly request: (fields: FormData) => Prepared<Answer>
  /** The same as arguments of `neap`, where it has such a command. */
  readonly neap?: (fields: FormData) => readonly string[]
  /** Called, and awaited, with the answer. */
  readonly done?: (answer: Answer) => unknown
  /** What to show of the answer instead of the form; without it the dialog closes. */
  readonly result?: (answer: Answer) => ReactNode
}

/**
 * A button, and the dialog with a form that it opens. The form shows its request as commands; a refusal is shown in the
 * form, whose fields stay.
 */
export function FormDialog<Answer>(props: FormDialogProps<Answer>) {
  const { opener, title, isDangerous, isPersonal } = props
  const viewOnly = useWhyViewOnly()
  const unavailable = props.unavailable ?? (isPersonal ? undefined : viewOnly)
  const [isOpen, setOpen] = useOpen(unavailable === undefined ? props.action : undefined)
  const reason = useId()
  return (
    <Dialog.Root open={isOpen} onOpenChange={setOpen}>
      <Dialog.Trigger
        className={isDangerous ? 'dangerous' : undefined}
        disabled={unavailable !== undefined}
        title={unavailable}
        aria-describedby={unavailable === undefined ? undefined : reason}
      >
        {opener}
      </Dialog.Trigger>
      {unavailable !== undefined && (
        <span id={reason} className="hidden">
          {unavailable}
        </span>
      )}
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title>{title}</Dialog.Title>
          <Form {...props} close={() => setOpen(false)} />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

/** Whether a dialog is open: by its button, or by the address. */
function useOpen(action: string | undefined): [boolean, (open: boolean) => void] {
  const [isOpen, setOpen] = useState(false)
  const [address, setAddress] = useSearchParams()
  const isAsked = action !== undefined && address.get('do') === action
  const change = (open: boolean) => {
    setOpen(open)
    // The page may be another one since the form was sent.
    if (open || action === undefined || new URLSearchParams(window.location.search).get('do') !== action) return
    setAddress(
      (before) => {
        before.delete('do')
        return before
      },
      { replace: true },
    )
  }
  return [isOpen || isAsked, change]
}

function Form<Answer>({
  verb,
  isDangerous,
  confirm,
  children,
  request,
  neap,
  done,
  result,
  close,
}: FormDialogProps<Answer> & { readonly close: () => void }) {
  const form = useRef<HTMLFormElement>(null)
  const [fields, setFields] = useState(() => new FormData())
  const readFields = () => form.current && setFields(new FormData(form.current))
  const sent = useMutation({
    mutationFn: async (filled: FormData) => {
      if (confirm !== undefined && textOf(filled, 'confirm') !== confirm) throw new Error(`Type ${confirm} to go on.`)
      const answer = await request(filled).send()
      await done?.(answer)
      return result?.(answer)
    },
    onSuccess: (shown) => {
      if (shown === undefined) close()
    },
  })
  if (sent.data !== undefined)
    return (
      <>
        {sent.data}
        <div className="buttons">
          <Dialog.Close className="main">Done</Dialog.Close>
        </div>
      </>
    )
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    sent.mutate(new FormData(event.currentTarget))
  }
  return (
    <form ref={form} onSubmit={send} onInput={readFields}>
      {children}
      {confirm !== undefined && (
        <Field label={`Type ${confirm}`}>
          <input name="confirm" autoComplete="off" />
        </Field>
      )}
      {sent.error && <p role="alert">{sent.error.message}</p>}
      <AsCommand onOpen={readFields} request={() => request(fields)} neap={neap && (() => neap(fields))} />
      <div className="buttons">
        <Dialog.Close>Cancel</Dialog.Close>
        <button type="submit" className={isDangerous ? 'main dangerous' : 'main'} disabled={sent.isPending}>
          {verb}
        </button>
      </div>
    </form>
  )
}
