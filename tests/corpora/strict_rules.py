r"""Responses that verl's strict rules accept or reject."""

from __future__ import annotations

# (reference, response, whether it is accepted)
MATH = [
    (r"\frac{1}{2}", r"\boxed{0.5}", True), (r"\frac{1}{2}", r"\boxed{1/2}", True),
    (r"\frac{1}{2}", r"\boxed{\frac12}", True), (r"\frac{1}{2}", r"\boxed{\dfrac 1 2}", True),
    (r"\frac{1}{72}", r"\boxed{\frac1{72}}", True), (r"\frac{72}{1}", r"\boxed{\frac{72}1}", False),
    (r"\frac{01}{2}", r"\boxed{01/2}", False), (r"\sqrt{3}", r"\boxed{\sqrt3}", True), ("0.3", r"\boxed{.3}", True),
    ("5", r"\boxed{k = 5}", True), ("5", r"\boxed{abc=5}", False), ("5", r"\boxed{5\text{ cm}}", True),
    ("5", r"\boxed{5\text{ cm}\text{ m}}", False), ("5", r"\boxed 5$ and", True), ("5", r"\boxed 5 and", False),
    ("5", r"\fbox{5}", False), ("5", r"\boxed{5", False), ("5", r"\boxed{4}\boxed{5}", True),
    (r"\sqrt", r"\boxed{\sqrt}", True), (r"\frac", r"\boxed{\frac}", True), (r"\frac ", r"\boxed{\frac}", False),
    (r"\sqrt ", r"\boxed{\sqrt}", False), (r"\frac1", r"\boxed{\frac 1}", True),
]  # fmt: skip

# responses to a problem whose reference is 18
GSM8K = [
    ("#### 18", True), ("#### 7\n#### 18", True), ("#### 18.", False), ("#### 18.00", False), ("#### $18", False),
    ("####18", False), ("#### **18**", False), (r"#### \boxed{18}", False), ("#### 18" + " " * 400, False),
    ("#### 18 eggs", True), ("#### 1,8", True), ("18", False),
]  # fmt: skip
