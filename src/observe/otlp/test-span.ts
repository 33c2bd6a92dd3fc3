/** Sends one span, to check a receiver: `headgate doctor`. */
import { randomBytes } from 'node:crypto'
import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer'
import { OtlpClient } from './otlp-client.ts'
import type { BatchResult } from './signal-queue.ts'
import { KIND, resourceOf, spanOf } from './span.ts'
import type { Receiver, TelemetryOptions } from './telemetry-options.ts'

/** The client of the signal `traces`. */
export const traceClient = (receiver: Receiver) =>
  new OtlpClient(receiver, {
    serializers: { protobuf: ProtobufTraceSerializer, json: JsonTraceSerializer },
    refused: 'rejectedSpans',
  })

/** Sends a span named `headgate doctor`, within the receiver's time limit. Does not throw. */
export const sendTestSpan = async (receiver: Receiver, options: TelemetryOptions): Promise<BatchResult> => {
  const now = Date.now()
  const parts = {
    name: 'headgate doctor',
    kind: KIND.internal,
    traceId: randomBytes(16).toString('hex'),
    spanId: randomBytes(8).toString('hex'),
    parentId: null,
    isParentRemote: false,
    state: null,
    from: now,
    to: now,
    hasFailed: false,
    facts: {},
    events: [],
  }
  const client = traceClient(receiver)
  const result = await client.send([spanOf(parts, resourceOf(options.resource), options.version)])
  client.close()
  return result
}
