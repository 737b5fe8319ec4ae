import { prepare } from '../../api.ts'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { Setting } from '../../parts/setting.tsx'
import { CHANGE_PROJECT, type ProjectChangeProps } from './change.ts'

const SIZES = [0.25, 0.5, 1, 2, 3, 4, 5, 6, 7]

const sleeps = (seconds: number | undefined): string => {
  if (seconds === -1) return 'never'
  return seconds === undefined || seconds === 0 ? 'after the default time' : `after ${seconds} idle seconds`
}

/** What endpoints that are made from now on have, unless told otherwise. */
export function Defaults({ project, done }: ProjectChangeProps) {
  const {
    autoscaling_limit_min_cu: min,
    autoscaling_limit_max_cu: max,
    suspend_timeout_seconds: timeout,
  } = project.default_endpoint_settings
  const size = min === max ? `${min ?? 0.25} CU` : `${min} to ${max} CU`
  return (
    <Setting title="New computes" state={`${size}; they sleep ${sleeps(timeout)}.`}>
      <FormDialog
        action="defaults"
        opener="Change defaults"
        title="Defaults of new computes"
        verb="Save"
        request={(fields) => prepare(CHANGE_PROJECT, { params: { project_id: project.id }, body: bodyOf(fields) })}
        neap={(fields) => {
          const [from, to] = [textOf(fields, 'min') ?? '', textOf(fields, 'max') ?? '']
          const cu = from === to ? from : `${from}-${to}`
          const suspend = { '-1': 'never', '0': 'default' }[textOf(fields, 'timeout') ?? '0']
          return [
            'projects',
            'update',
            project.id,
            '--cu',
            cu,
            '--suspend-timeout',
            suspend ?? textOf(fields, 'timeout') ?? '',
          ]
        }}
        done={done}
      >
        <Field label="Smallest size, CU">
          <Size name="min" now={min} />
        </Field>
        <Field label="Largest size, CU" hint="Both the same: a fixed size. To scale, both lie from 1 to 7.">
          <Size name="max" now={max} />
        </Field>
        <Field label="Idle seconds until they sleep" hint="0: the default of this Neap. -1: never.">
          <input name="timeout" type="number" min={-1} max={604_800} defaultValue={timeout ?? 0} />
        </Field>
      </FormDialog>
    </Setting>
  )
}

function Size({ name, now = 0.25 }: { readonly name: string; readonly now: number | undefined }) {
  const sizes = SIZES.includes(now) ? SIZES : [...SIZES, now]
  return (
    <select name={name} defaultValue={now}>
      {sizes.map((each) => (
        <option key={each}>{each}</option>
      ))}
    </select>
  )
}

const bodyOf = (fields: FormData) => ({
  project: {
    default_endpoint_settings: {
      autoscaling_limit_min_cu: Number(textOf(fields, 'min')),
      autoscaling_limit_max_cu: Number(textOf(fields, 'max')),
      suspend_timeout_seconds: Number(textOf(fields, 'timeout') ?? 0),
    },
  },
})
