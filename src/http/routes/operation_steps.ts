import { describeOperation } from '../../commands/operation_steps.ts'
import { OperationSteps, operationStepsView } from '../../views/operation_steps.ts'
import { route } from '../route.ts'
import { OperationId, requireOperation } from './operations.ts'

export const listOperationSteps = route('GET /projects/:project_id/operations/:operation_id/steps', {
  summary: 'List the steps of an operation, what it waits for, and whether it can be cancelled',
  tag: 'Operation',
  params: OperationId,
  returns: OperationSteps,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) =>
  operationStepsView(await describeOperation(context.db, await requireOperation(context, params))),
)
