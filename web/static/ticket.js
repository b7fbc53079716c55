// The ticket that a sale may ask for. It is fetched before the opening, so that
// at the opening nothing stands between the button and the claim.

export class Tickets {
  constructor(sale, changed) {
    this.sale = sale;
    this.changed = changed;
  }

  // want has a ticket fetched in time, if the sale asks for one.
  want() {}

  // status is what to tell the buyer of it before the opening; null: nothing.
  status() { return null; }

  // header is what a claim carries.
  async header() { return {}; }
}
