import { type Static, Type } from 'typebox'

const Step = Type.Object(
  {
    name: Type.String({ description: 'What is true after it; `failure` undoes what a failed operation began' }),
    status: Type.Union([
      Type.Literal('done'),
      Type.Literal('failed'),
      Type.Literal('current'),
      Type.Literal('to_come'),
    ]),
    began_at: Type.Optional(Type.String({ format: 'date-time' })),
    ended_at: Type.Optional(Type.String({ format: 'date-time' })),
    error: Type.Optional(Type.String({ description: 'Why this attempt failed' })),
  },
  { $id: 'OperationStep' },
)

export const OperationSteps = Type.Object(
  {
    steps: Type.Array(Step, {
      description: 'In order; of more than forty recorded ones the first and the latest twenty',
    }),
    waits_behind: Type.Array(Type.Object({ id: Type.String({ format: 'uuid' }), action: Type.String() }), {
      description: 'The first operations that it stands behind, while it has not begun',
    }),
    cancellable: Type.Boolean(),
    not_cancellable_because: Type.Optional(Type.String()),
    request_id: Type.Optional(
      Type.String({ description: 'The request that asked for it, as in the list of audit entries' }),
    ),
  },
  { $id: 'OperationSteps' },
)

interface Described {
  readonly steps: readonly Static<typeof Step>[]
  readonly behind: readonly { readonly id: string; readonly action: string }[]
  readonly cancelRefusal: string | undefined
  readonly request_id: string | null
}

/** The course of an operation as clients see it. */
export const operationStepsView = ({
  steps,
  behind,
  cancelRefusal,
  request_id,
}: Described): Static<typeof OperationSteps> => ({
  steps: [...steps],
  waits_behind: [...behind],
  cancellable: cancelRefusal === undefined,
  ...(cancelRefusal !== undefined && { not_cancellable_because: cancelRefusal }),
  ...(request_id !== null && { request_id }),
})
