/** What operators declare about the data that leaves the gateway: of providers, and of the services of guards. */
import { z } from 'zod'
import { MAX_REQUIRE, REGION } from '../core/data-policy.ts'

export const facts = {
  region: z
    .string()
    .regex(REGION)
    .optional()
    .describe('where it processes data: a label such as eu, eu-de, us or local')
    .meta({ allowed: 'a label such as eu, eu-de or local' }),
  retention: z
    .int()
    .min(0)
    .max(MAX_REQUIRE.days)
    .optional()
    .describe('days for which it keeps prompts or answers; 0: it keeps none'),
  training: z.boolean().optional().describe('whether models are trained with the data'),
}
