import { Dialog } from '@base-ui/react/dialog'
import { useMutation } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useState } from 'react'

interface FormDialogProps {
  /** The text of the button that opens the dialog. */
  readonly opener: string
  readonly title: string
  /** The text of the button that sends the form. */
  readonly verb: string
  readonly isDangerous?: boolean
  readonly isDisabled?: boolean
  readonly children: ReactNode
  /** Does what the form asks for. Returns what to show instead of the form; undefined closes it. */
  readonly submit: (fields: FormData) => Promise<ReactNode>
}

/** A button, and the dialog with a form that it opens. A refusal is shown in the form, whose fields stay. */
export function FormDialog({ opener, title, verb, isDangerous, isDisabled, children, submit }: FormDialogProps) {
  const [isOpen, setOpen] = useState(false)
  const sent = useMutation({
    mutationFn: submit,
    onSuccess: (shown) => {
      if (shown === undefined) setOpen(false)
    },
  })
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    sent.mutate(new FormData(event.currentTarget))
  }
  return (
    <Dialog.Root
      open={isOpen}
      onOpenChange={(open) => {
        setOpen(open)
        if (open) sent.reset()
      }}
    >
      <Dialog.Trigger className={isDangerous ? 'dangerous' : undefined} disabled={isDisabled}>
        {opener}
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title>{title}</Dialog.Title>
          {sent.data !== undefined ? (
            <>
              {sent.data}
              <div className="buttons">
                <Dialog.Close className="main">Done</Dialog.Close>
              </div>
            </>
          ) : (
            <form onSubmit={send}>
              {children}
              {sent.error && <p role="alert">{sent.error.message}</p>}
              <div className="buttons">
                <Dialog.Close>Cancel</Dialog.Close>
                <button type="submit" className={isDangerous ? 'main dangerous' : 'main'} disabled={sent.isPending}>
                  {verb}
                </button>
              </div>
            </form>
          )}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

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
