import type { AdminSale, CreateSale, CreateWebhook, Event, Order, PatchSale, PayOrder, Webhook } from "./api.js";
import type { AskOptions } from "./index.js";

export * from "./index.js";

/** A token for a buyer of yours, signed with the buyer secret. Never make one in a browser. */
export function buyerToken(
  buyer: string, secret: string, options?: { seconds?: number; iss?: string; aud?: string; sluice_sales?: string[]; [claim: string]: unknown },
): string;

/** The event of a webhook's request, or null if it is none of ours. body is the raw body. */
export function verifyWebhook(
  secret: string, headers: Headers | Record<string, string | string[] | undefined>, body: string | Uint8Array,
): Event | null;

/** The shop itself. */
export class Merchant {
  constructor(url: string, adminKey: string, options?: { patience?: number });
  ask(path: string, options?: AskOptions): Promise<any>;
  createSale(sale: CreateSale): Promise<AdminSale>;
  sale(sale: string): Promise<AdminSale>;
  patchSale(sale: string, change: PatchSale): Promise<AdminSale>;
  addPicture(sale: string, picture: Blob | Uint8Array | ArrayBuffer): Promise<AdminSale>;
  open(sale: string): Promise<AdminSale>;
  pause(sale: string): Promise<AdminSale>;
  resume(sale: string): Promise<AdminSale>;
  close(sale: string): Promise<AdminSale>;
  order(order: string): Promise<Order>;
  orders(filter?: { sale?: string; buyer?: string; status?: Order["status"] }): AsyncGenerator<Order, void>;
  /** Look at the status of the answer: paid, or refund_due if the payment came too late. */
  pay(order: string, payment: PayOrder): Promise<Order>;
  cancel(order: string): Promise<Order>;
  reject(order: string, reason: string): Promise<Order>;
  refund(order: string): Promise<Order>;
  extend(order: string, until: Date): Promise<Order>;
  createWebhook(webhook: CreateWebhook): Promise<Webhook>;
  /** Every event after the one with this id, in order; it waits for more until the signal comes. */
  events(options?: { after?: string; signal?: AbortSignal; every?: number }): AsyncGenerator<Event, void>;
}
