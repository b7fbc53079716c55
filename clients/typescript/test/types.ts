// Compiled, never run: that the declarations fit what a shop writes.
import { Lost, Problem, Sluice, type api } from "../index.js";
import { buyerToken, Merchant, verifyWebhook } from "../server.js";

export async function sell(url: string, secret: string): Promise<string> {
  const sluice = new Sluice(url, { token: async () => buyerToken("alice", secret, { seconds: 60, sluice_sales: ["mug"] }) });
  const sale: api.Sale = await sluice.sale("mug");
  const left: number | null = sale.available;
  for await (const now of sluice.watch("mug")) if (now.state === "open" && left !== 0) break;
  try {
    const placed = await sluice.claim("mug", { quantity: 2, onWait: (problem, ms) => console.log(problem.message, ms) });
    const order = await new Merchant(url, "key").pay(placed.order_id, { payment_id: "p1", amount: 1900, currency: "CNY" });
    return order.status === "paid" ? order.order_id : "";
  } catch (error) {
    if (error instanceof Lost) return error.key ?? "";
    if (error instanceof Problem && error.code === "sold_out") return error.body.order_ids?.[0] ?? "";
    throw error;
  }
}

export const event: api.Event | null = verifyWebhook("whsec_", new Headers(), "{}");
// @ts-expect-error a status that there is not
export const wrong: api.Order["status"] = "payed";
