/** Canaries of routes. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { listOf } from './fields.ts'

export const CANARY_ACTIONS = ['pause', 'resume', 'promote', 'back'] as const

export const CANARY = z
  .strictObject({
    object: z.literal('canary'),
    route: z.string(),
    target: z.string().describe('`provider/model`'),
    status: z.enum(['running', 'paused', 'stopped']),
    step: z.int().describe('From 1'),
    steps: z.array(z.number()).describe('Percent of the sessions'),
    share: z.number().describe('Percent of the sessions that it serves now'),
    since: time.describe('When the step or the stop began'),
    reason: z.string().nullable().describe('Why it is stopped'),
  })
  .meta({ id: 'Canary' })

export const CANARIES = listOf(CANARY)
